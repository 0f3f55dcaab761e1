"""More than one process: models that are replicated, and ranks that agree on what they compile.

`replicas` and `buckets` are about DistributedDataParallel; `digest`, `agreement` and `errors` about
what ranks say to each other before a graph runs in which they communicate. How collectives are
captured is in `capture/communication/`.
"""
