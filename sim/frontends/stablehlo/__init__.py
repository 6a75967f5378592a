"""JAX: StableHLO, as `jax.export` writes it, in our own form."""
