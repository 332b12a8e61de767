//go:build !race

package twin

// RaceDetector reports whether the tests run with the race detector.
const RaceDetector = false
