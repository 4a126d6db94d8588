// Package recurrence computes layers that keep a state of a sequence instead of its keys and values: a causal convolution over the last
// rows, and for each head a matrix that decays and to which each row adds (the gated delta net of Qwen3.5, Mamba 2). States of a
// sequence are as large after a million rows as after one.
//
// Rows are taken in their order, one after the other, while a part of the state stays in the core's first cache. So what is computed of a row
// depends neither on the other sequences of a step, nor on where a prompt was cut, nor on the number of workers.
package recurrence
