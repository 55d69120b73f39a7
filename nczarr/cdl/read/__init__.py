"""Read CDL text: parse, analyse and bind it into a dataset."""
