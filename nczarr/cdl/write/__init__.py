"""Write datasets as CDL text and as NcML."""
