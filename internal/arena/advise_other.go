//go:build unix && !linux

package arena

func adviseMemory([]byte) {}
