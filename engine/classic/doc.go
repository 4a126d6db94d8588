// Package classic serves classical models: tree ensembles and ONNX graphs, whose work
// is rows of numbers. A [Version] is a loaded model whatever its format. A [Lane]
// computes requests for all versions of a process.
//
// The lane learns for each version what a request of n rows costs, a·n + b. A request
// below [InlineLimit] is computed on its caller's goroutine, because handing it over would
// cost more than it takes; as many are computed at once as the machine has
// cores, and the others wait in line. A larger one waits for a turn at the compute
// pool, where the engines of the language models have theirs. When the turn comes,
// what waits of the same version is computed as one batch, split over the pool's
// workers; after a bounded time the others have their turns, and the batch goes on in
// the next one. A request that makes its batch fail is found by computing the
// batch's requests one by one, and fails alone.
//
// Order, bounds and refusals are those of package scheduler/batch, and with it of
// scheduler/admission: tenants share by weight, and what they use here counts in the
// language models' lanes too.
package classic
