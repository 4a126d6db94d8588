package outputlen

// Means are mean lengths of recent answers of all tenants, by the limits that were
// set for them; 0 is unknown. A copy may be read by any goroutine.
type Means [limitClasses]float32

// Means are those of the answers that have ended, where enough have.
func (l *Lengths) Means() Means {
	m := l.means
	for c := range m {
		if l.all.byLimit[c].seen < enoughAnswers {
			m[c] = 0
		}
	}
	return m
}

// Of is the expected length of an answer with this limit, and whether it is known.
func (m *Means) Of(limit int) (tokens float64, known bool) {
	mean := float64(m[limitClass(limit)])
	if mean == 0 {
		return float64(min(limit, firstLength)), false
	}
	return min(float64(limit), mean), true
}

// learn takes in that an answer, the one of this number with limits of its class,
// has ended after n tokens.
func (m *Means) learn(class, n, number int) {
	weight := max(1-lengthFade, 1/float64(number))
	m[class] += float32(weight * (float64(n) - float64(m[class])))
}
