//go:build unix && !linux

package gguf

func adviseMemory([]byte) {}
