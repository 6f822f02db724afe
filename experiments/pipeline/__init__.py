"""Programs asked, scored and compiled over many questions, with the LM, the retriever and the threads that takes."""
