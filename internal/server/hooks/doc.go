// Package hooks is told of requests by the protocols of the API: it counts, logs and traces them, keeps what tenants have used, and
// notes what policies found in texts. [Watchers.Generations] and its like give the edge one set of hooks, which tells all of them
// in the order that Watchers.observers states.
//
// A server makes one set of watchers, and gives each protocol its hooks:
//
//	w, err := hooks.New(hooks.Options{Settings: settings, Metrics: metrics, Log: log, Store: store, …})
//	…
//	edge.Hooks = w.Generations() // of api/openai
//	predict.Hooks = w.Predictions()
package hooks
