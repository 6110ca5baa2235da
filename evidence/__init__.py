"""Programs that measure how right, fast and reliable stagewise is: each writes a page or a record of the docs."""
