package chat

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// strftime appends a time in C's format, with English names. The text of a
// directive has the mark of its percent sign.
func (w *builder) strftime(format Value, t time.Time) {
	s := format.str
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+n]
		client := format.clientAt(i)
		if s[i] == '%' && i+1 < len(s) {
			n = 2
			if s[i+1] == '-' && i+2 < len(s) {
				n = 3 // glibc: no padding
			}
			var known bool
			if piece, known = directive(s[i+n-1], n == 3, t); !known {
				n, piece = 1, "%"
			}
		}
		w.write(piece, client)
		i += n
	}
}

// directive gives the text of %c; false for those unknown.
func directive(c byte, unpadded bool, t time.Time) (string, bool) {
	pad := func(n, width int) (string, bool) {
		if unpadded {
			width = 0
		}
		return fmt.Sprintf("%0*d", width, n), true
	}
	switch c {
	case 'Y':
		return pad(t.Year(), 4)
	case 'y':
		return pad(t.Year()%100, 2)
	case 'C':
		return pad(t.Year()/100, 2)
	case 'm':
		return pad(int(t.Month()), 2)
	case 'd':
		return pad(t.Day(), 2)
	case 'e':
		return fmt.Sprintf("%2d", t.Day()), true
	case 'H':
		return pad(t.Hour(), 2)
	case 'I':
		return pad((t.Hour()+11)%12+1, 2)
	case 'M':
		return pad(t.Minute(), 2)
	case 'S':
		return pad(t.Second(), 2)
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'j':
		return pad(t.YearDay(), 3)
	case 'U':
		return pad((t.YearDay()+6-int(t.Weekday()))/7, 2)
	case 'W':
		return pad((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2)
	case 'w':
		return pad(int(t.Weekday()), 0)
	case 'u':
		return pad((int(t.Weekday())+6)%7+1, 0)
	case 's':
		return pad(int(t.Unix()), 0)
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 'Z', 'z':
		return "", true // transformers formats a time that has no zone
	case 't':
		return "\t", true
	}
	return compound(c, t)
}

// compound are the directives that Go's layouts express.
func compound(c byte, t time.Time) (string, bool) {
	switch c {
	case 'G', 'V':
		year, week := t.ISOWeek()
		if c == 'G' {
			return fmt.Sprintf("%04d", year), true
		}
		return fmt.Sprintf("%02d", week), true
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006"), true
	}
	layout := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'p': "PM", 'D': "01/02/06", 'x': "01/02/06",
		'F': "2006-01-02", 'R': "15:04", 'T': "15:04:05", 'X': "15:04:05", 'r': "03:04:05 PM",
	}[c]
	return t.Format(layout), layout != ""
}
