// Package kvevent reads the KV events that vLLM and SGLang publish, and says which keys of a prefix index they are.
//
// An engine names its blocks by hashes of its own, in one of several ways that differ between versions and settings. None of them is
// copied here: an event that stores blocks carries their token ids, the size of a block and the hash of the block before, and a Ledger
// makes its own chain of keys from these, as kvcache.Domain does for any tokens. It remembers which of the engine's hashes became
// which key, for the events that name later blocks or remove one.
package kvevent
