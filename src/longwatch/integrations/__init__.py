"""Recording for programs that others have instrumented. Each module imports its SDK when it is imported."""
