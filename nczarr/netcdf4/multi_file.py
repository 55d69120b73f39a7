"""placeholder"""


class MFDataset: ...


class MFTime: ...
