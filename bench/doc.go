// Package bench measures servers and checks them for leaks through HTTP and their
// published metrics only, so that it works with any OpenAI-compatible server. It
// also measures weir's own engine, kernels and scheduler in this process.
// README.md defines every figure and says how to use each measurement.
//
//   - Serve is a load generator with the definitions and the result file of
//     `vllm bench serve`; a Workload makes or reads what it sends.
//   - Rig is a loaded engine with a clock on its steps: one sequence as
//     llama-bench measures it, many as llama-batched-bench does.
//   - RunMicro measures kernels; Cost forecasts a model from the machine's limits.
//   - Result is the file of every measurement; Compare compares two or more and
//     says what else differs between them.
//   - Soak is the leak check: it hangs up on requests at every stage and then
//     checks that the server's gauges are zero.
package bench
