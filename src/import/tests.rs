//! Tests of what the formats have in common.
