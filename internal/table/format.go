package table

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// Format is a cell as CSV has it: the shortest text of a number that reads back the same, times in RFC 3339, "" for a missing one.
func (c *Column) Format(v Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	if c.Kind == Other {
		return c.other(v)
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.FormatBool(v.Boolean()), nil
	case parquet.Int32:
		if c.unsigned {
			return strconv.FormatUint(uint64(v.Uint32()), 10), nil
		}
		return strconv.Itoa(int(v.Int32())), nil
	case parquet.Int64:
		if c.unsigned {
			return strconv.FormatUint(v.Uint64(), 10), nil
		}
		return strconv.FormatInt(v.Int64(), 10), nil
	case parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), nil
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64), nil
	default:
		return string(v.ByteArray()), nil
	}
}

func (c *Column) other(v Value) (string, error) {
	if l := nodeOf(c).Type().LogicalType(); l != nil {
		switch t := l.Value.(type) {
		case *format.DateType:
			return time.Unix(86400*int64(v.Int32()), 0).UTC().Format(time.DateOnly), nil
		case *format.TimestampType:
			return instant(v.Int64(), t), nil
		case *format.DecimalType:
			return decimal(v, int(t.Scale)), nil
		}
	}
	return "", fmt.Errorf("column %q: a %s has no form in CSV; leave it out with --keep, or write Parquet", c.Name, c.Type)
}

// instant is a timestamp, with Z where it is one of UTC.
func instant(n int64, t *format.TimestampType) string {
	var at time.Time
	switch t.Unit.Value.(type) {
	case *format.MilliSeconds:
		at = time.UnixMilli(n)
	case *format.MicroSeconds:
		at = time.UnixMicro(n)
	default:
		at = time.Unix(0, n)
	}
	layout := "2006-01-02T15:04:05.999999999"
	if t.IsAdjustedToUTC {
		layout += "Z"
	}
	return at.UTC().Format(layout)
}

// decimal is a number of fixed places.
func decimal(v Value, scale int) string {
	n := new(big.Int)
	switch v.Kind() {
	case parquet.Int32:
		n.SetInt64(int64(v.Int32()))
	case parquet.Int64:
		n.SetInt64(v.Int64())
	default:
		b := v.ByteArray()
		if n.SetBytes(b); len(b) > 0 && b[0] >= 0x80 { // two's complement
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b)))) //nolint:gosec // not negative
		}
	}
	digits, sign := n.String(), ""
	if n.Sign() < 0 {
		digits, sign = digits[1:], "-"
	}
	if scale <= 0 {
		return sign + digits
	}
	digits = strings.Repeat("0", max(scale+1-len(digits), 0)) + digits
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}
