// Writes a SIF with the Sylabs library: reference OUT ID SECONDS TYPE:NAME:FILE...
package main

import (
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sylabs/sif/v2/pkg/sif"
)

func object(spec string) (sif.DescriptorInput, error) {
	parts := strings.SplitN(spec, ":", 3)
	file, err := os.Open(parts[2])
	if err != nil {
		return sif.DescriptorInput{}, err
	}
	name := sif.OptObjectName(parts[1])
	switch parts[0] {
	case "deffile":
		return sif.NewDescriptorInput(sif.DataDeffile, file, name)
	case "json":
		return sif.NewDescriptorInput(sif.DataGenericJSON, file, name)
	case "spdx":
		return sif.NewDescriptorInput(sif.DataSBOM, file, name, sif.OptSBOMMetadata(sif.SBOMFormatSPDXJSON))
	default:
		partition := sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, parts[0])
		return sif.NewDescriptorInput(sif.DataPartition, file, name, partition)
	}
}

func main() {
	seconds, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	options := []sif.CreateOpt{
		// As Apptainer says it; the library's own is empty.
		sif.OptCreateWithLaunchScript("#!/usr/bin/env run-singularity\n"),
		sif.OptCreateWithID(os.Args[2]),
		sif.OptCreateWithTime(time.Unix(seconds, 0)),
	}
	for _, spec := range os.Args[4:] {
		input, err := object(spec)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, sif.OptCreateWithDescriptors(input))
	}
	image, err := sif.CreateContainerAtPath(os.Args[1], options...)
	if err != nil {
		log.Fatal(err)
	}
	if err := image.UnloadContainer(); err != nil {
		log.Fatal(err)
	}
}
