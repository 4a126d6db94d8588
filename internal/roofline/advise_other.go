//go:build unix && !linux

package roofline

func adviseHuge([]byte) {}
