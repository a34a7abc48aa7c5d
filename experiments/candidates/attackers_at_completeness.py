import glob, json, numpy as np, pandas as pd
from pathlib import Path
root=Path('/tmp/games/runs/short-likelihood-seed-0')
from pvg_hf.run.read import load_run
from pvg_hf.scoring import VerifierScorer
out={}
for r in (0,2,4):
    h=pd.read_parquet(root/f'pool/round-{r:03d}/test-helpful.parquet'); h=h[h.correct]
    sc=VerifierScorer.from_pretrained(root/f'verifier/round-{r:03d}')
    q=np.quantile(sc(h.problem.tolist(),h.solution.tolist()),.05)
    for f in glob.glob(str(root/f'judging/attacks/attackers/round-{r:03d}-*/texts.parquet')):
        t=pd.read_parquet(f); m=t[~t.correct]; name=Path(f).parent.name[:13]
        k=int((m.score>q).sum()); n=len(m); z=1.96; p=k/n
        c=(p+z*z/2/n)/(1+z*z/n); w=z/(1+z*z/n)*np.sqrt(p*(1-p)/n+z*z/4/n/n)
        att=json.loads((Path(f).parent/'attack.json').read_text())
        own=float((m.score>0).mean())
        print(name, 'thr',round(float(q),2),'n',n,f'{p:.2f} [{c-w:.2f}, {c+w:.2f}]','own thr',round(own,2),'incorrect',round(float((~t.correct).mean()),2), len(t))
        out[f'seed 0, {Path(f).parent.name[:17]}']={'max_steps':att['attack']['max_steps'],'found':att['exploit']['step'] is not None,'helpful_score':att['helpful_score'],'num_texts':len(t),'num_mistakes':n,'accepted_at_own_threshold':own,'accepted_at_95_completeness':{'value':p,'low':float(c-w),'high':float(c+w),'n':n}}
json.dump(out,open('/tmp/games/attack_figures.json','w'))
