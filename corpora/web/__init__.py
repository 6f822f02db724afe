"""The web as a retriever: a search engine, pages fetched with care, and a recording that repeats both."""
