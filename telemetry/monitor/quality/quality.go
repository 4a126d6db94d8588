// Package quality says how good predictions were, once their labels are known.
package quality

import (
	"math"
	"slices"
	"strconv"
)

// Figure is a number that may be NaN, which JSON has as null.
type Figure float64

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	if x := float64(f); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'g', -1, 64), nil
}

func (f Figure) String() string { return strconv.FormatFloat(float64(f), 'f', 4, 64) }

// Binary is the quality of scores between 0 and 1 for labels 0 and 1.
type Binary struct {
	Rows      int          `json:"rows"`
	Positives int          `json:"positives"`
	AUC       Figure       `json:"auc"`      // NaN where all labels are equal
	LogLoss   float64      `json:"log_loss"` // in nats; scores are kept off 0 and 1 by the precision of float64
	Brier     float64      `json:"brier"`
	Accuracy  float64      `json:"accuracy"`          // of scores from 0.5 on taken as 1
	ECE       float64      `json:"calibration_error"` // mean distance of Calibration's two rates, by rows
	Bins      []Calibrated `json:"calibration"`
}

// Calibrated is a bin of scores.
type Calibrated struct {
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Rows  int     `json:"rows"`
	Score float64 `json:"score"` // mean
	Rate  float64 `json:"rate"`  // of label 1; the mean label of a regression
}

// calibrationBins part the scores evenly.
const calibrationBins = 10

// OfBinary measures scores against labels, which are 0 or 1.
func OfBinary(scores, labels []float64) Binary {
	b := Binary{Rows: len(scores), AUC: Figure(auc(scores, labels))}
	type sums struct {
		rows        int
		score, rate float64
	}
	var bins [calibrationBins]sums
	const eps = 0x1p-52
	correct := 0
	for i, s := range scores {
		y := labels[i]
		if y == 1 {
			b.Positives++
		}
		p := min(max(s, eps), 1-eps)
		b.LogLoss -= y*math.Log(p) + (1-y)*math.Log1p(-p)
		b.Brier += (s - y) * (s - y)
		if (s >= 0.5) == (y == 1) {
			correct++
		}
		at := &bins[calibrationBin(s)]
		at.rows++
		at.score += s
		at.rate += y
	}
	n := float64(len(scores))
	b.LogLoss, b.Brier, b.Accuracy = b.LogLoss/n, b.Brier/n, float64(correct)/n
	for i, bin := range bins {
		if bin.rows == 0 {
			continue
		}
		c := Calibrated{Low: float64(i) / calibrationBins, High: float64(i+1) / calibrationBins, Rows: bin.rows,
			Score: bin.score / float64(bin.rows), Rate: bin.rate / float64(bin.rows)}
		b.ECE += math.Abs(c.Score-c.Rate) * float64(bin.rows) / n
		b.Bins = append(b.Bins, c)
	}
	return b
}

// calibrationBin: a bin has its upper edge, which is computed as numpy does.
func calibrationBin(score float64) int {
	i := 0
	for i < calibrationBins-1 && float64(i+1)*(1.0/calibrationBins) < score {
		i++
	}
	return i
}

// auc is the chance that a row of label 1 scores above one of label 0; ties count half.
func auc(scores, labels []float64) float64 {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return 0
	})
	positives, ranks := 0.0, 0.0
	for i := 0; i < len(order); {
		j, ones := i, 0.0
		for j < len(order) && scores[order[j]] == scores[order[i]] {
			ones += labels[order[j]]
			j++
		}
		ranks += ones * float64(i+j+1) / 2 // the mean of the ranks i+1 to j
		positives += ones
		i = j
	}
	negatives := float64(len(scores)) - positives
	return (ranks - positives*(positives+1)/2) / (positives * negatives) // 0/0 is NaN
}

// Classes is the quality of shares per class, for labels that are the class's index.
type Classes struct {
	Rows     int     `json:"rows"`
	LogLoss  float64 `json:"log_loss"` // in nats
	Accuracy float64 `json:"accuracy"` // of the highest share's class; the first where several are
}

// OfClasses measures rows of shares, one per class. Labels must be valid indices.
func OfClasses(shares [][]float64, labels []int) Classes {
	c := Classes{Rows: len(shares)}
	correct := 0
	for i, row := range shares {
		best, sum := 0, 0.0
		for k, p := range row {
			sum += p
			if p > row[best] {
				best = k
			}
		}
		if best == labels[i] {
			correct++
		}
		const eps = 0x1p-52
		c.LogLoss -= math.Log(min(max(row[labels[i]]/sum, eps), 1-eps))
	}
	c.LogLoss, c.Accuracy = c.LogLoss/float64(c.Rows), float64(correct)/float64(c.Rows)
	return c
}

// Regression is the quality of numbers.
type Regression struct {
	Rows int     `json:"rows"`
	RMSE float64 `json:"rmse"`
	MAE  float64 `json:"mae"`
	Bias float64 `json:"bias"` // mean of score minus label
	R2   Figure  `json:"r2"`   // NaN where all labels are equal
	// Bins are tenths of the rows by score, lowest first: calibration of a number.
	Bins []Calibrated `json:"calibration"`
}

// OfRegression measures scores against labels.
func OfRegression(scores, labels []float64) Regression {
	n := float64(len(scores))
	r := Regression{Rows: len(scores)}
	mean, squares, spread := 0.0, 0.0, 0.0
	for _, y := range labels {
		mean += y / n
	}
	for i, s := range scores {
		d := s - labels[i]
		squares += d * d
		r.MAE += math.Abs(d) / n
		r.Bias += d / n
		spread += (labels[i] - mean) * (labels[i] - mean)
	}
	r.RMSE, r.R2 = math.Sqrt(squares/n), Figure(1-squares/spread)
	if spread == 0 {
		r.R2 = Figure(math.NaN())
	}
	r.Bins = tenths(scores, labels)
	return r
}

func tenths(scores, labels []float64) []Calibrated {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return 0
	})
	var out []Calibrated
	for i := range calibrationBins {
		part := order[i*len(order)/calibrationBins : (i+1)*len(order)/calibrationBins]
		if len(part) == 0 {
			continue
		}
		c := Calibrated{Rows: len(part), Low: scores[part[0]], High: scores[part[len(part)-1]]}
		for _, at := range part {
			c.Score += scores[at] / float64(len(part))
			c.Rate += labels[at] / float64(len(part))
		}
		out = append(out, c)
	}
	return out
}
