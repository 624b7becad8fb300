"""One file per API, named as Kafka names it: the version notes, the request, the response."""
