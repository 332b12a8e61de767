//go:build !race

package twin

const raceDetector = false
