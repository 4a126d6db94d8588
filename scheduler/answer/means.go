package answer

// Means are mean lengths of recent answers of all tenants, by the limits that were
// set for them. A copy may be read by any goroutine.
type Means [limitClasses]float32

// Means are those of the answers that have ended.
func (l *Lengths) Means() Means { return l.means }

// Of is the expected length of an answer with this limit.
func (m *Means) Of(limit int) float64 {
	mean := float64(m[limitClass(limit)])
	if mean == 0 {
		mean = firstLength
	}
	return min(float64(limit), mean)
}

// learn takes in that an answer, the one of this number with limits of its class,
// has ended after n tokens.
func (m *Means) learn(class, n, number int) {
	if weight := max(1-lengthFade, 1/float64(number)); number == 1 {
		m[class] = float32(n)
	} else {
		m[class] += float32(weight * (float64(n) - float64(m[class])))
	}
}
