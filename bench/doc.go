// Package bench measures and torments servers from outside, through HTTP and
// their published metrics only, so that it works on any OpenAI-compatible one.
// README.md has the definitions of every figure and the ways to use them.
//
//   - Serve is a load generator with the definitions and the result file of
//     `vllm bench serve`; a Workload makes or reads what it sends.
//   - Result is the envelope of every measurement; Compare sets two or more
//     side by side and says what else differs between them.
//   - Soak is the leak check: requests that are cut off at every stage, after
//     which nothing of them may be left.
package bench
