// Package quota decides how much a tenant may use: requests and tokens per
// minute, answers at once, tokens of one request, and budgets per day and month
// in tokens and in money.
//
// The package is pure: time is an argument, and there is no lock, no clock and
// no goroutine. Amounts are integers throughout, so nothing drifts.
package quota
