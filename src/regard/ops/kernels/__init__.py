"""Everything that is compiled: loops by numba for the CPU, kernels by triton for GPUs."""
