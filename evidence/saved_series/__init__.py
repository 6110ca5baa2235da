"""Series that real tools saved: whether each opens with the loss that the tool's own reload gives."""
