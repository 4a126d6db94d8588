package models

// LoadProgress is how far the loading of models has come.
type LoadProgress struct {
	Model      string // being loaded; "" when unknown
	DoneBytes  int64
	TotalBytes int64
}

// Fraction is in [0, 1].
func (p LoadProgress) Fraction() float64 {
	if p.TotalBytes <= 0 {
		return 0
	}
	return min(1, max(0, float64(p.DoneBytes)/float64(p.TotalBytes)))
}
