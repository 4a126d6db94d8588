package gbdt

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Transform is how margins become outputs, in the precision of the margins.
type Transform uint8

// The transformations of the libraries' objectives.
const (
	Identity     Transform = iota
	Sigmoid                // of each margin: 1 / (1 + exp(-Steepness·x))
	Softmax                // over a row's margins
	Exp                    // of each
	ArgMax                 // the index of the first largest margin of a row: one output
	Hinge                  // of each: 1 above 0, else 0
	SignedSquare           // of each: x·|x|
	Log1pExp               // of each: log(1 + exp(x))

	transforms
)

var transformNames = [...]string{
	Identity: "identity", Sigmoid: "sigmoid", Softmax: "softmax", Exp: "exp", ArgMax: "argmax", Hinge: "hinge",
	SignedSquare: "signed square", Log1pExp: "log(1+exp)",
}

// String names the transformation.
func (t Transform) String() string {
	if t < transforms {
		return transformNames[t]
	}
	return "transformation " + strconv.Itoa(int(t))
}

// ParseTransform finds a transformation by its name.
func ParseTransform(name string) (Transform, error) {
	if i := slices.Index(transformNames[:], name); i >= 0 {
		return Transform(i), nil //nolint:gosec // there are few
	}
	return 0, fmt.Errorf("the transformation %q is unknown; there are %s", shorten(name), strings.Join(transformNames[:], ", "))
}

// width gives the outputs per row for that many margins.
func (t Transform) width(margins int) int {
	if t == ArgMax {
		return min(1, margins)
	}
	return margins
}

// float is what rows and sums are made of.
type float interface{ float32 | float64 }

// apply transforms margins in place, width of them per row, and gives the part of the slice that holds the outputs.
func apply[S float](e *Ensemble, margins []S) []S {
	width := e.Outputs
	if e.Transform == Identity {
		return margins
	}
	power := newExponential(e.Coarse && (e.Transform == Softmax || e.Transform == Exp))
	switch e.Transform {
	case Sigmoid:
		steepness := S(e.Steepness)
		if steepness == 0 {
			steepness = 1
		}
		for i, x := range margins {
			margins[i] = sigmoid(power, steepness*x)
		}
	case Softmax:
		for row := margins; len(row) > 0; row = row[width:] {
			softmax(power, row[:width])
		}
	case ArgMax:
		rows := len(margins) / width
		for r := range rows {
			margins[r] = S(argmax(margins[r*width : (r+1)*width]))
		}
		return margins[:rows]
	default:
		each(e.Transform, power, margins)
	}
	return margins
}

func each[S float](t Transform, power exponential, margins []S) {
	for i, x := range margins {
		switch t {
		case Exp:
			x = exp(power, x)
		case Hinge:
			if x > 0 {
				x = 1
			} else {
				x = 0
			}
		case SignedSquare:
			if x < 0 {
				x = -(x * x)
			} else {
				x *= x
			}
		case Log1pExp:
			x = S(math.Log1p(power.double(float64(x))))
		default: // apply has the others
		}
		margins[i] = x
	}
}

// exp is glibc's of the margins' type.
func exp[S float](e exponential, x S) S {
	if single[S]() {
		return S(e.single(float32(x)))
	}
	return S(e.double(float64(x)))
}

// sigmoid is XGBoost's in float32, which keeps the exponential finite, and LightGBM's in float64.
func sigmoid[S float](e exponential, x S) S {
	y := -x
	if single[S]() {
		y = min(y, 88.7)
	}
	return 1 / (exp(e, y) + 1)
}

// softmax sums in float64 whatever the margins are, as both libraries do.
func softmax[S float](e exponential, row []S) {
	largest := row[0]
	for _, x := range row[1:] {
		largest = max(largest, x)
	}
	sum := 0.0
	for i, x := range row {
		row[i] = exp(e, x-largest)
		sum += float64(row[i])
	}
	for i := range row {
		row[i] /= S(sum)
	}
}

func argmax[S float](row []S) int {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return best
}

// single says whether S is float32.
func single[S float]() bool {
	var x S
	_, yes := any(x).(float32)
	return yes
}
