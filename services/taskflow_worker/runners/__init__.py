"""The executors that come with TaskFlow, each in processes of the nursery."""
