package models

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Calibration corrects what a model's decisions say, so that of options that are 80 % probable four of five are right. What it says is
// fitted on questions with known answers: weir bench quality --fit. The zero value corrects nothing.
type Calibration struct{ Predicate, Choice, Score Scaling }

// Scaling is that of one type of question: the log-probabilities of its options are divided by Temperature, and the first option of a
// predicate, which is that it is true, gets Bias added then (Platt scaling). The zero value changes nothing.
type Scaling struct{ Temperature, Bias float64 }

// What a calibration takes.
const (
	leastTemperature = 0.01
	mostTemperature  = 100
	mostBias         = 100
)

// biasKey names the bias of predicates.
const biasKey = "predicate.bias"

// ReadCalibration reads items TYPE=TEMPERATURE, where TYPE is predicate, choice or score, and predicate.bias=BIAS. An error names the item.
func ReadCalibration(items []string) (c Calibration, err error) {
	places := map[string]*float64{
		"predicate": &c.Predicate.Temperature, "choice": &c.Choice.Temperature, "score": &c.Score.Temperature, biasKey: &c.Predicate.Bias,
	}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		place, ok := places[name]
		if !ok {
			return c, fmt.Errorf("%.80q names no type of question; an item is predicate=, choice=, score= and a temperature, or %s= and a bias", item, biasKey)
		}
		least, most := float64(leastTemperature), float64(mostTemperature)
		if name == biasKey {
			least, most = -mostBias, mostBias
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= least && v <= most) {
			return c, fmt.Errorf("%.80q needs a number from %v to %v behind the =", item, least, most)
		}
		*place = v
	}
	return c, nil
}

// Apply gives the log-probabilities of a question's options as they are after the correction, up to a number that is the same for all: in
// logs themselves where it changes nothing.
func (s Scaling) Apply(logs []float64) []float64 {
	if (s.Temperature == 0 || s.Temperature == 1) && s.Bias == 0 {
		return logs
	}
	scaled := make([]float64, len(logs))
	for i, l := range logs {
		if scaled[i] = l; s.Temperature != 0 {
			scaled[i] = l / s.Temperature
		}
	}
	if s.Bias != 0 && !math.IsInf(scaled[0], -1) {
		scaled[0] += s.Bias
	}
	return scaled
}
