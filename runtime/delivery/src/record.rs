//! Where a provider's record is kept: in the object `Provider` of the cluster, or in memory.
