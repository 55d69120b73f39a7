"""Read what a picture needs of a dataset: coordinates, dates, strided parts of values, statistics."""
