"""Offline: train a round-0 verifier on a run's base pool with overrides; acceptance on all test pools of given runs."""
import sys, time, logging, shutil
from pathlib import Path
import numpy as np, pandas as pd, torch
torch.set_num_threads(1)
from pvg_hf.config import load_recipe
from pvg_hf.run.layout import RunFolder
from pvg_hf.data.pairs.build import round_pairs
from pvg_hf.game.phases.verifier import tokenize_pairs
from pvg_hf.models.sources import load_tokenizer, resolve_model
from pvg_hf.models.verifier_input import VerifierInput
from pvg_hf.models.verifier_model import load_initial_verifier
from pvg_hf.models.score_head import draw_head
from pvg_hf.models.hardware import Hardware
from pvg_hf.scoring import VerifierScorer
from pvg_hf.trainers.arguments import TrainerRun, verifier_arguments
from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer
from sklearn.metrics import roc_auc_score

RUN = Path(sys.argv[1]); name = sys.argv[2]; over = sys.argv[3:]
rnd = 0
if over and over[0].startswith("round="):
    rnd = int(over.pop(0)[6:])
recipe = load_recipe("recipes/arithmetic-short.yaml", ["seed=0", "name=x", *over])
folder = RunFolder.find(RUN)
src = resolve_model(recipe.verifier.model, "verifier")
tok = load_tokenizer(src)
vi = VerifierInput.of(recipe.verifier, tok.eos_token)
pairs, rep = round_pairs(recipe, folder.training_pools(rnd), rnd, "verifier")
def load():
    return load_initial_verifier(src, likelihood_scale=vi.likelihood_scale, **({"likelihood_of": vi.likelihood_of} if vi.likelihood_scale is not None else {}))
def report(model, tag):
    sc = VerifierScorer(model, tok, vi)
    out = []
    for root in sorted(Path(__import__('os').environ['WORK']+'/runs').iterdir()):
        if root.name != RUN.name and "--all" not in name: pass
        for pool in sorted((root/"pool").iterdir()):
            if pool.name=="base" and root != RUN: continue
            if not (pool/"test-helpful.parquet").exists(): continue
            h, s = (pd.read_parquet(pool/f"test-{r}.parquet") for r in ("helpful","sneaky"))
            h = h[h.correct]; s = s[~s.correct & (s.outcome!="no_answer")]
            sh = np.array(sc(h.problem.tolist(), h.solution.tolist())); ss = np.array(sc(s.problem.tolist(), s.solution.tolist()))
            t = np.quantile(sh, .05)
            y = np.r_[np.ones(len(sh)),np.zeros(len(ss))].astype(bool)
            out.append(f"{root.name.removesuffix('-seed-0')}/{pool.name[-3:]}: acc {np.mean(ss>t):.2f} auc {roc_auc_score(y, np.r_[sh,ss]):.3f} n={len(ss)}")
    print(f"== {name} {tag}: " + " | ".join(out), flush=True)

import json
from pvg_hf.evaluation.verifier_quality import calibrate
out=Path(__import__('os').environ['WORK']+'/ver')/name/"round-000"
if not out.exists():
    model=load()
    shutil.rmtree(__import__('os').environ['WORK']+'/explore/x', ignore_errors=True)
    args = verifier_arguments(recipe, TrainerRun(Path(__import__('os').environ['WORK']+'/explore/x'), Hardware.here("cpu"), seed=1), label_rates=(0.,0.), assumed_rates=(0.,0.))
    args.save_strategy="no"; args.report_to=[]
    tr=NoisyRewardTrainer(model=model,args=args,train_dataset=tokenize_pairs(pairs,tok,vi),processing_class=tok,verifier_input=vi)
    if recipe.verifier.traits.has_score_head: draw_head(tr.model,5)
    t0=time.time(); c0=time.process_time(); tr.train(); print("trained",name,"wall",time.time()-t0,"cpu",time.process_time()-c0,flush=True)
    part=Path(str(out)+".partial"); shutil.rmtree(part,ignore_errors=True); part.mkdir(parents=True); tr.save_model(str(part))
    sc=VerifierScorer(tr.model,tok,vi); B=pd.concat([pd.read_parquet(RUN/"pool/base"/f"test-{r}.parquet") for r in ("helpful","sneaky")]); B=B[~B.is_truncated]
    B=B.assign(score=sc(B.problem.tolist(),B.solution.tolist())); calibrate(B,B.correct.to_numpy()).save(part)
    import os; os.rename(part,out)
