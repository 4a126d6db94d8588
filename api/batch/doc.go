// Package batch serves /v1/files and /v1/batches: files that tenants upload, and batches of requests that
// the server answers when it has nothing more urgent to do.
//
// A batch is a file of JSON lines, one request each. A worker runs the lines through the edge in process, as
// requests of their tenant in the lowest class (edge.InternalRequest), a few at a time while other requests run and
// more when none do. Each answer is one record in the batch's journal, synced before the line counts as
// done; after a crash the worker goes on behind the last whole record. At the end the journal becomes the
// output file and the file of errors.
//
// What files and batches there are is in a Store, their bytes in a folder beside it. Where several processes
// share both, one of them runs a batch at a time: it has a lease in the store, and the lock of the journal.
//
// The server is a protocol of the listener's Mux, which is its Edge, too:
//
//	files, err := batch.New(batch.Config{Callers: callers, Edge: mux, Limits: batch.DefaultLimits(), Store: store.Batches, Dir: dir})
//	…
//	mux.Register(files)
//	files.Start() // runs batches until files.Drain
package batch
