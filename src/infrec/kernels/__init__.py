"""Array mathematics of the kernel; knows nothing of users."""
