"""Text encoders: OpenVINO and sentence-transformers, gathering of concurrent calls, a cache of vectors."""
