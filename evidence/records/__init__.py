"""The table of records: what others logged or published while a model trained, with truths written down beforehand."""
