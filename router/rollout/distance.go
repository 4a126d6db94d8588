package rollout

import "strings"

// maxWords of a text are compared, so that a comparison takes microseconds.
const maxWords = 256

// Distance is how far two texts are from each other: 0 where they have the same words in
// the same order, 1 where no word is common, else the part of their words that is not in
// the longest sequence that both contain.
func Distance(a, b string) float64 {
	x, y := words(a), words(b)
	if len(x)+len(y) == 0 {
		return 0
	}
	row := make([]int, len(y)+1)
	for i := range x {
		corner := 0
		for j := range y {
			above := row[j+1]
			if x[i] == y[j] {
				row[j+1] = corner + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			corner = above
		}
	}
	return 1 - 2*float64(row[len(y)])/float64(len(x)+len(y))
}

func words(s string) []string {
	list := strings.Fields(s)
	return list[:min(len(list), maxWords)]
}
