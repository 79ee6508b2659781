"""HTTP: the API, the streams and the page, over one journal and one store of documents."""
