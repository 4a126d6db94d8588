package console

import (
	"fmt"
	"strconv"
)

// ShowSize prints bytes with a binary unit: 1.4 GiB.
func ShowSize(bytes int64) string {
	const units = "KMGTPE"
	if bytes < 1024 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

// ShowCount prints a large number with a decimal unit: 1.2 B parameters.
func ShowCount(n uint64) string {
	switch {
	case n < 1e3:
		return strconv.FormatUint(n, 10)
	case n < 1e6:
		return fmt.Sprintf("%.1f K", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f B", float64(n)/1e9)
}
