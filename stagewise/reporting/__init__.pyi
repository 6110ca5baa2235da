from ._section import section as section
