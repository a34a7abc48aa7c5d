"""screen.py NAME VERIFIER_FOLDER [steps]: fresh SRC attacker, then acceptance."""
import sys, json, time; from pathlib import Path
import numpy as np, pandas as pd, torch; torch.set_num_threads(1)
from pvg_hf.config import load_recipe
from pvg_hf.experimental.attacks.verifier_attack import attack_verifier
from pvg_hf.scoring import VerifierScorer
name,folder=sys.argv[1],sys.argv[2]; steps=sys.argv[3] if len(sys.argv)>3 else '40'; seed=sys.argv[4] if len(sys.argv)>4 else '0'
if __name__=='__main__':
    sc=VerifierScorer.from_pretrained(folder)
    H=pd.read_parquet(__import__('os').environ['WORK']+'/helpful.parquet'); H=H[H.correct]; h=np.array(sc(H.problem.tolist(),H.solution.tolist()))
    R=Path(__import__('os').environ['WORK']+'/runs/q-likelihood-seed-0/pool/base'); B,S=(pd.read_parquet(R/f'test-{r}.parquet') for r in ('helpful','sneaky'))
    B=B[B.correct]; S=S[~S.correct&(S.outcome!='NO_ANSWER')&~S.is_truncated]
    b=np.array(sc(B.problem.tolist(),B.solution.tolist())); s0=np.array(sc(S.problem.tolist(),S.solution.tolist()))
    t=np.quantile(h,.05); tb=np.quantile(b,.05)
    print(name,'threshold helpful',t,'base',tb,'static base mistakes accepted at base thr',np.mean(s0>tb),'at helpful thr',np.mean(s0>t),'helpful mean',h.mean(),flush=True)
    rec=load_recipe('recipes/arithmetic-short.yaml',['seed=0',f'name=attack-{name}-{seed}-{steps}','output_dir='+__import__('os').environ['WORK']+'/attacks','mint.test_solutions_per_problem=2'])
    from pvg_hf.config.recipe import merge
    v=rec.to_dict(); v['attack']={'verifier':str(folder),'rewards':['standardized_src'],'seeds':[int(seed)],'max_steps':int(steps),'num_problems':150,'ema':.2,'helpful_score':float(h.mean()),'sneaky_sees':'nothing'}
    rec=load_recipe(v); c0=time.process_time(); w0=time.time()
    root=attack_verifier(rec,num_workers=1)
    T=pd.concat([pd.read_parquet(f) for f in root.rglob('texts.parquet')]); C=pd.concat([pd.read_parquet(f) for f in root.rglob('curve.parquet')])
    ok=~T.correct & (T.outcome.astype(str)!='NO_ANSWER') & (T.outcome.astype(str)!='TRUNCATED'); a=T[ok]
    res=dict(name=name,steps=int(steps),seed=int(seed),n=int(ok.sum()),incorrect=float(ok.mean()),accepted_at_helpful=float(np.mean(a.score>t)),accepted_at_base=float(np.mean(a.score>tb)),static_base=float(np.mean(s0>tb)),score_gap=float(a.score.mean()-h.mean()),helpful_std=float(h.std()),cpu=time.process_time()-c0,wall=time.time()-w0)
    print(json.dumps(res)); open(__import__('os').environ['WORK']+'/screen.jsonl','a').write(json.dumps(res)+'\n')
    print(C.iloc[::5].round(2).to_string()); print(a.sample(min(5,len(a)),random_state=0)[['problem','solution']].to_dict('records'))
