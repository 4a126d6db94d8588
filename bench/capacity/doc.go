// Package capacity computes what a load costs: how many replicas of which instances serve it within its latency targets, in one pool or with
// prefill and decode apart, and how they stand on nodes, cards and MIG slices.
//
// Replicas are limited by formulas over measured rates (Demand), and by latencies that the scheduler of this build gives in virtual time on a
// machine whose steps take what was measured (Rates, replica). What a replica sustains does not depend on the load, so a higher rate never
// needs fewer replicas.
package capacity
