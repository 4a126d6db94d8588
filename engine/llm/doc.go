// Package llm is a loaded language model and the one loop that steps it.
//
// Engine is the narrow door: Load a GGUF file, Submit requests, read their
// streams, Close. Inside, one goroutine owns the scheduler, the block pool and
// the tensors. Each turn of its loop is: take submits and cancels, Plan, one
// forward pass over every planned row (prefill chunks and decodes in the same
// matrix products), sample, Commit, push events. Callers never see a tensor
// and the engine never sees text.
//
// # When something breaks
//
// No panic leaves the loop (fault.go). Each is counted and told to OnFault:
//
//   - in a hook, or while a step's statistics are published: nobody's request is
//     concerned;
//   - in taking in or finishing a request: that request fails;
//   - in computing a step or emitting its tokens: the step's requests fail with
//     ErrInternal, the others keep their places, if scheduler and pool then pass
//     their own checks;
//   - where they do not pass them, also in the check of an idle engine, and always
//     after a panic inside the scheduler (a change may be half made): every live
//     request fails, and a new scheduler and an empty pool take over. The weights
//     and the cache's memory stay, so that this takes milliseconds. A process
//     that ended instead would fail the same requests and load for minutes;
//   - where three new schedulers in a row break before they complete a step: the
//     engine refuses everything with the reason, and is not ready, which takes it
//     out of rotation. It does not end the process: its metrics, logs and debug
//     pages are what tells the bug.
//
// # Models
//
// An architecture (one file each: arch_llama.go, arch_qwen2.go, arch_qwen3.go,
// arch_smollm3.go) makes a plan (plan.go) of a file's hyper-parameters
// (hparams.go): what each layer computes, in numbers. weights.go lists the
// tensors that the plan calls for and refuses any other, forward.go computes it.
// A layer that works otherwise is a field of its plan, and one more method where
// it needs other operations: a window is a number in attentionPlan (with
// kvcache.Slide and a lower bound in attend.Query), experts are another kind
// of feedPlan, and a recurrent mixer is a part beside the attention whose state
// a chunk's sequence can index. None of these three is built yet.
package llm
