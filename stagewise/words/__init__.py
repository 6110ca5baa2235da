"""Every sentence about findings, made from their rows."""
