#!/bin/bash
# one.sh NAME MODE LM STEPS overrides...   trains and attacks one candidate
name=$1; mode=$2; lm=$3; steps=$4; shift 4
cd $REPO; export PYTHONPATH=$PWD OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 HF_HOME=$WORK/hf
[ "$mode" != - ] && export PVG_HEAD_READ=$mode; [ "$lm" != - ] && export PVG_LM=$lm
PY=${PYTHON:-python}
$PY experiments/candidates/train.py $WORK/runs/q-likelihood-seed-0 $name "$@" && $PY experiments/candidates/screen.py $name $WORK/ver/$name/round-000 $steps
