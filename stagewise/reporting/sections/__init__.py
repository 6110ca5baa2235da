"""The sections of the report, one a file: what a folder holds in, paragraphs and figures out, or nothing."""
