// Package hooks is told of requests by the protocols of the API: it counts, logs and traces them, keeps what tenants have used, and
// notes what policies found in texts. [Watchers.Generations] and its like give the edge one set of hooks, which tells all of them
// in the order that Watchers.observers states.
package hooks
