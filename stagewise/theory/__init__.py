"""The papers' theories, one derivation a file: equations in, numbers out; numpy and scipy only."""
