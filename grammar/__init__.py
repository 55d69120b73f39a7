"""The Lark grammars of nczarr, packaged as ``nczarr.grammar``."""
