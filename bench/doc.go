// Package bench measures and torments servers from outside, through HTTP and
// their published metrics only, so that it works on any OpenAI-compatible one;
// and weir's own engine and kernels from inside. README.md has the definitions
// of every figure and the ways to use them.
//
//   - Serve is a load generator with the definitions and the result file of
//     `vllm bench serve`; a Workload makes or reads what it sends.
//   - Rig is a loaded engine with a clock on its steps: one sequence as
//     llama-bench measures it, many as llama-batched-bench does.
//   - RunMicro measures kernels; Cost forecasts a model from the machine's limits.
//   - Result is the envelope of every measurement; Compare sets two or more
//     side by side and says what else differs between them.
//   - Soak is the leak check: requests that are cut off at every stage, after
//     which nothing of them may be left.
package bench
