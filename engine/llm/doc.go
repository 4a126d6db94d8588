// Package llm is a loaded language model and the one loop that steps it.
//
// Engine is the whole interface: Open a GGUF file, Submit requests, read their
// streams, Close. Inside, one goroutine, the step loop, owns the scheduler, the
// block pool and the tensors. It repeats: read submits and cancels, Plan, one
// forward pass over every planned row (prefill chunks and decodes in the same
// matrix products), sample, Commit, push events. Callers never see a tensor
// and the engine never sees text.
//
// # When something breaks
//
// No panic leaves the step loop (restore.go). Each is counted and reported to
// OnFault. What happens next depends on where the panic was:
//
//   - in a hook, or while a step's statistics are published: no request fails;
//   - in submitting, cancelling or ending a request: that request fails;
//   - in computing a step or emitting its tokens: the step's requests fail with
//     ErrInternal, the others keep their places, if scheduler and pool then pass
//     their own checks;
//   - where they do not pass them, also in the check of an idle engine, and always
//     after a panic inside the scheduler (a change may be half made): every live
//     request fails, and a new scheduler and an empty block pool are made. The weights
//     and the cache's memory stay, so that this takes milliseconds. A process
//     that ended instead would fail the same requests and load for minutes;
//   - where three new schedulers in a row fail before they complete a step: the
//     engine refuses every request with the reason, and is not ready, so that load
//     balancers send it nothing. The process goes on, because its metrics, logs
//     and profiles help to find the bug.
//
// # Text encoders
//
// Encoder (OpenEncoder, Embed, Close) is the lane of files that embed or score texts.
// Its loop takes whole texts from the same queue that language models have, as many
// as learned cost fits into a pass (encoder_loop.go), and computes the pass in units,
// a part of a layer for a block of rows, between which other engines have their turns
// (pass.go). Keys and values live for one layer of one pass; nothing is cached.
// Vectors are pooled and not normalised: the edge truncates and normalises.
//
// # Models
//
// An architecture (one file each, arch_llama.go and so on; the text encoders in arch_bert.go) makes a plan (plan.go) of a file's hyper-parameters
// (hparams.go): what each layer computes, in numbers. tensors.go lists the
// tensors that the plan calls for and refuses any other, forward.go computes it.
// A layer that works otherwise is a field of its plan, and one more method where
// it needs other operations: a window is a number in attentionPlan, experts are
// another kind of feedForwardPlan (experts.go their tensors, routing.go which rows meet which, mixture.go what they give),
// and a recurrent mixer is a part beside the attention, whose states sequences have slots for (recurrent.go, recurrentforward.go, states.go).
package llm
